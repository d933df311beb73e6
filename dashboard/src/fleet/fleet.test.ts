import assert from "node:assert/strict";
import { test } from "node:test";
import type { Fleet, FleetHost, FleetResident } from "../data/types";
import { configurationsOf, listed } from "./hosts";
import { modelsOf, search } from "./search";
import { totalsOf } from "./totals";

const GIB = 2 ** 30;

function resident(model: string, facts: Partial<FleetResident> = {}): FleetResident {
  return { model, phase: "ready", memory: {}, in_flight: 0, waiting: 0, ...facts };
}

function host(name: string, facts: Partial<FleetHost> = {}): FleetHost {
  return {
    host: name,
    address: `http://${name}.lan:8080`,
    version: "1.2.0",
    labels: {},
    config_digest: "26e748ab",
    state: "reachable",
    last_seen_s: 1,
    cordoned: false,
    drained: false,
    devices: [],
    residents: [],
    in_flight: 0,
    waiting: 0,
    missing_files: {},
    ...facts,
  };
}

function fleet(hosts: FleetHost[], absent: Fleet["absent"] = []): Fleet {
  return { host: "ada", connection: "connected", problem: "", hosts, absent };
}

const FOUR = fleet(
  [
    host("ada", {
      state: "this_host",
      labels: { gpu: "h100" },
      residents: [resident("qwen3", { in_flight: 2 })],
    }),
    host("bob", {
      labels: { gpu: "h100" },
      cordoned: true,
      residents: [resident("qwen3", { phase: "loading", waiting: 1 }), resident("gemma")],
    }),
    host("cleo", {
      labels: { gpu: "a100" },
      state: "unreachable",
      drained: true,
      config_digest: "9f8e7d6c",
      missing_files: { gemma: "/models/gemma.gguf" },
    }),
  ],
  [{ host: "dora", cordoned: true, drained: false }],
);

const found = (words: string, state: Parameters<typeof search>[1]["state"] = null) =>
  search(listed(FOUR), { words, state }).map(({ name }) => name);

test("a host has all states that an operator should know, and is ready if it has none of them", () => {
  const states = listed(FOUR).map((each) => each.states.join(", "));

  assert.deepEqual(states, [
    "ready",
    "cordoned",
    "drained, unreachable, file missing, other configuration",
    "cordoned, offline",
  ]);
});

test("a host that lacks a file gets requests and other models, so it is ready", () => {
  const [one] = listed(fleet([host("a", { missing_files: { gemma: "/models/gemma.gguf" } })]));

  assert.deepEqual(one?.states, ["ready", "file missing"]);
});

test("if each configuration is on half of the hosts, all hosts are marked", () => {
  const halves = fleet([host("a"), host("b", { config_digest: "9f8e7d6c" })]);

  assert.ok(listed(halves).every(({ states }) => states.includes("other configuration")));
  assert.deepEqual(
    listed(fleet([host("a"), host("b")])).flatMap(({ states }) => states),
    ["ready", "ready"],
  );
});

test("configurations are listed with the number of their hosts, the most frequent first", () => {
  const three = fleet([host("a", { config_digest: "9f8e7d6c" }), host("b"), host("c")]);

  assert.deepEqual(
    [...configurationsOf(three)],
    [
      ["26e748ab", 2],
      ["9f8e7d6c", 1],
    ],
  );
});

test("totals count hosts by state, models by phase, and requests", () => {
  const { hosts, states, ready, loading, inFlight, waiting } = totalsOf(listed(FOUR));

  assert.deepEqual(
    { hosts, ready, loading, inFlight, waiting },
    {
      hosts: 4,
      ready: 2,
      loading: 1,
      inFlight: 2,
      waiting: 1,
    },
  );
  assert.deepEqual(Object.fromEntries(states), {
    ready: 1,
    cordoned: 2,
    drained: 1,
    leaving: 0,
    unreachable: 1,
    offline: 1,
    "file missing": 1,
    "other configuration": 1,
  });
});

test("memory is added up by kind of device", () => {
  const gpus = ["gpu0", "gpu1.2"].map((device) => ({ device, budget: 80 * GIB, free: 60 * GIB }));
  const others = [
    { device: "ram", budget: 100 * GIB, free: 90 * GIB },
    { device: "0", budget: GIB, free: GIB },
  ];
  const { memory } = totalsOf(listed(fleet([host("a", { devices: gpus }), host("b", { devices: others })])));

  assert.deepEqual(
    [...memory],
    [
      ["gpu", { used: 40 * GIB, budget: 160 * GIB }],
      ["ram", { used: 10 * GIB, budget: 100 * GIB }],
      ["0", { used: 0, budget: GIB }],
    ],
  );
});

test("hosts are found by name, label, address, configuration and state", () => {
  assert.deepEqual(found(""), ["ada", "bob", "cleo", "dora"]);
  assert.deepEqual(found("BOB"), ["bob"]);
  assert.deepEqual(found("gpu=h100"), ["ada", "bob"]);
  assert.deepEqual(found("cleo.lan"), ["cleo"]);
  assert.deepEqual(found("9f8e"), ["cleo"]);
  assert.deepEqual(found("offline"), ["dora"]);
  assert.deepEqual(found("file missing"), ["cleo"]);
  assert.deepEqual(found("this host"), ["ada"]);
  assert.deepEqual(found("zebra"), []);
});

test("hosts are found by their models, and all words must fit the host or one of its models", () => {
  assert.deepEqual(found("qwen"), ["ada", "bob"]);
  assert.deepEqual(found("h100 qwen loading"), ["bob"]);
  assert.deepEqual(found("gemma loading"), []);
  assert.deepEqual(found("a100 qwen"), []);
});

test("a state leaves only hosts that have it, whatever the phases of their models", () => {
  assert.deepEqual(found("", "ready"), ["ada"]);
  assert.deepEqual(found("qwen", "cordoned"), ["bob"]);
});

test("models are listed with the found hosts that have them", () => {
  const listOf = (words: string) =>
    modelsOf(search(listed(FOUR), { words, state: null })).map(
      ({ model, places }) => `${model}: ${places.map((place) => place.host).join(" ")}`,
    );

  assert.deepEqual(listOf(""), ["gemma: bob", "qwen3: ada bob"]);
  assert.deepEqual(listOf("loading"), ["qwen3: bob"]);
  assert.deepEqual(listOf("bob"), ["gemma: bob", "qwen3: bob"]);
});
