import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import { App } from "./app";
import { begin } from "./data/state";
import "./style/tokens.css";
import "./style/base.css";
import "./style/frame.css";
import "./style/pages.css";

begin();
render(<App />, document.getElementById("app") as HTMLElement);
