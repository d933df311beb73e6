// The frame around each page: navigation, the phase of each model, and the connection status.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { queue, membership, models, connection, hasReloadFailed } from "./data/state";
import { ActivityPage } from "./pages/activity";
import { ConfigPage } from "./pages/config";
import { FleetPage } from "./pages/fleet";
import { QueuePage } from "./pages/queue";
import { LogsPage } from "./pages/logs";
import { MemoryPage } from "./pages/memory";
import { ModelsPage } from "./pages/models";
import { PlaygroundPage } from "./pages/playground";
import { TimelinePage } from "./pages/timeline";
import { UsagePage } from "./pages/usage";
import { NoticeBar } from "./parts/actions";
import { Icon, type IconName } from "./parts/icons";
import { PhaseDot, phaseLabel, phaseShown } from "./parts/phase";
import { linkTo, route } from "./route";
import { chooseTheme, chosenTheme, type Theme } from "./theme";

const PAGES: Record<IconName, { title: string; Page: () => preact.JSX.Element }> = {
  models: { title: "Models", Page: ModelsPage },
  timeline: { title: "Timeline", Page: TimelinePage },
  memory: { title: "Memory", Page: MemoryPage },
  queue: { title: "Queue", Page: QueuePage },
  activity: { title: "Activity", Page: ActivityPage },
  usage: { title: "Usage", Page: UsagePage },
  logs: { title: "Logs", Page: LogsPage },
  playground: { title: "Playground", Page: PlaygroundPage },
  fleet: { title: "Fleet", Page: FleetPage },
  config: { title: "Config", Page: ConfigPage },
};

function isPage(name: string): name is IconName {
  return name in PAGES;
}

export function App() {
  const asked = route.value.page;
  const page = isPage(asked) ? asked : "models";
  const isMenuOpen = useSignal(false);
  const { Page, title } = PAGES[page];
  useEffect(() => {
    document.title = `${title} · hotseat`;
  }, [title]);
  return (
    <>
      <button type="button" class="skip" onClick={() => document.getElementById("content")?.focus()}>
        Skip to content
      </button>
      <aside class={isMenuOpen.value ? "side open" : "side"}>
        <div class="brand">
          <span class="name">hotseat</span>
          <Live />
          <button
            type="button"
            class="menu"
            aria-expanded={isMenuOpen.value}
            aria-controls="menu"
            onClick={() => (isMenuOpen.value = !isMenuOpen.value)}
          >
            Menu
          </button>
        </div>
        <div class="side-body" id="menu">
          <Pages current={page} chosen={() => (isMenuOpen.value = false)} />
          <ModelDots />
          <ThemeChoice />
        </div>
      </aside>
      <main id="content" tabIndex={-1}>
        {hasReloadFailed.value && <ReloadErrors />}
        <Page key={page} />
      </main>
      <NoticeBar />
    </>
  );
}

function ReloadErrors() {
  return (
    <p class="banner" role="alert">
      The last reload of the configuration had errors. <a href={linkTo("config")}>View errors</a>
    </p>
  );
}

function Pages({ current, chosen }: { current: string; chosen: () => void }) {
  const isDisconnected = membership.value?.connection === "disconnected";
  const tags: Partial<Record<IconName, number | string>> = {
    queue: queue.value.length,
    fleet: isDisconnected ? "disconnected" : "",
  };
  const shown = Object.entries(PAGES).filter(([name]) => name !== "fleet" || membership.value !== null);
  return (
    <nav aria-label="Pages">
      {shown.map(([name, { title }]) => (
        <a
          key={name}
          href={linkTo(name)}
          aria-current={name === current ? "page" : undefined}
          onClick={chosen}
        >
          <Icon name={name as IconName} />
          {title}
          {Boolean(tags[name as IconName]) && <span class="count">{tags[name as IconName]}</span>}
        </a>
      ))}
    </nav>
  );
}

function ModelDots() {
  return (
    <section class="dots" aria-label="Model phases">
      <h2>Models</h2>
      <ul>
        {(models.value ?? []).map(({ model, phase, failures, in_flight }) => (
          <li key={model}>
            <PhaseDot
              phase={phaseShown({ phase, failures })}
              label={phaseLabel(phaseShown({ phase, failures }))}
            />
            <a href={linkTo("models", { model })}>{model}</a>
            {in_flight > 0 && (
              <span class="count" title="Requests in flight">
                {in_flight}
              </span>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}

const CONNECTIONS = { connecting: "connecting", live: "live", lost: "disconnected" };

function Live() {
  return (
    <span class={`live ${connection.value}`} role="status">
      {CONNECTIONS[connection.value]}
    </span>
  );
}

const THEMES: Record<Theme, string> = { system: "System", light: "Light", dark: "Dark" };

function ThemeChoice() {
  const theme = useSignal<Theme>(chosenTheme());
  return (
    <fieldset class="choice theme">
      <legend class="unseen">Theme</legend>
      {(["system", "light", "dark"] as const).map((each) => (
        <button
          key={each}
          type="button"
          aria-pressed={theme.value === each}
          onClick={() => {
            chooseTheme(each);
            theme.value = each;
          }}
        >
          {THEMES[each]}
        </button>
      ))}
    </fieldset>
  );
}
