"""The picture of a run: every phase where it belongs, nothing that an SVG viewer would choke on."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from hotseat.identifiers import LaunchId, ModelName, TicketId
from hotseat.simulation.results import Request, Run, Stay
from hotseat.simulation.timeline import clock, phases, timeline

SVG = "{http://www.w3.org/2000/svg}"
ODD = ModelName('a<b>&"c')


def run(*stays: Stay, requests: tuple[Request, ...] = ()) -> Run:
    return Run(requests, stays)


WHOLE_STAY = Stay(ODD, LaunchId(1), asked=0, ready=10, draining=20, stopping=25, gone=26)


def test_a_stay_is_drawn_phase_by_phase() -> None:
    """From the command to the end of the process."""
    assert list(phases(WHOLE_STAY, 100)) == [
        ("loading", 0, 10),
        ("ready", 10, 20),
        ("draining", 20, 25),
        ("stopping", 25, 26),
    ]


def test_a_stay_that_has_not_ended_lasts_to_the_end() -> None:
    """What still runs is drawn to the edge; phases without a length are left out."""
    assert list(phases(Stay(ODD, LaunchId(1), asked=5, ready=5), 100)) == [("ready", 5, 100)]


def test_the_picture_is_well_formed_and_says_what_it_shows() -> None:
    """Odd names are escaped; a title and a description exist for screen readers."""
    asked = Request(TicketId(0), "u", ODD, 1, 0, 10, 11)
    refused = Request(TicketId(1), "u", ODD, 1, 3)
    drawn = ElementTree.fromstring(timeline([("one & two", run(WHOLE_STAY, requests=(asked, refused)))]))

    assert drawn.findtext(f"{SVG}title") == "Which model ran when"
    assert drawn.findtext(f"{SVG}desc") == "one & two: 1 loads, 2 requests."
    assert [bar.get("class") for bar in drawn.iter(f"{SVG}rect")][4:] == ["loading", "ready", "draining", "stopping"]
    assert [path.get("class") for path in drawn.iter(f"{SVG}path")] == ["asked", "asked", "refused"]


def test_runs_are_drawn_on_one_scale() -> None:
    """A shorter run is shorter in the picture too."""
    short, long = run(Stay(ODD, LaunchId(1), 0, 10)), run(Stay(ODD, LaunchId(1), 0, 40))
    drawn = ElementTree.fromstring(timeline([("short", short), ("long", long)]))
    loading = [float(bar.get("width", 0)) for bar in drawn.iter(f"{SVG}rect") if bar.get("class") == "loading"][1:]

    assert loading[0] == pytest.approx(loading[1] / 4, abs=0.1)


def test_a_run_without_anything_is_an_empty_picture() -> None:
    """Nothing to draw is no failure."""
    ElementTree.fromstring(timeline([("nothing", run())]))


@pytest.mark.parametrize(("seconds", "text"), [(45, "45s"), (125, "2:05"), (3725, "1:02:05")])
def test_the_axis_speaks_as_a_clock_does(seconds: int, text: str) -> None:
    """Seconds, minutes, hours."""
    assert clock(seconds) == text


def test_every_model_has_its_own_lane() -> None:
    """In the order in which they were first asked for."""
    other = Stay(ModelName("other"), LaunchId(2), asked=3, ready=4)
    drawn = ElementTree.fromstring(timeline([("two", run(other, WHOLE_STAY))]))
    titles = [bar.findtext(f"{SVG}title", "") for bar in drawn.iter(f"{SVG}rect")]

    assert [text.split()[0] for text in titles if "loading" in text] == [ODD, "other"]
