"""A real Prometheus that scrapes hotseat, so that tests run the queries of operators."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode

import yaml
from tests.support.client import PATIENCE_S
from tests.support.ports import free_port
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path


def program(name: str) -> str:
    """The path of Debian's program, or a failure that says how to install it."""
    found = shutil.which(name)
    assert found, f"{name} is missing: apt-get install prometheus"
    return found


class Prometheus:
    """Scrapes every second; leaving the block stops it."""

    def __init__(self, port: int, rules: Path, folder: Path) -> None:
        """With the jobs of the configuration beside the rules."""
        self.port = free_port()
        config = folder / "prometheus.yml"
        jobs = yaml.safe_load(rules.with_name("prometheus.yml").read_text())["scrape_configs"]
        here = {"static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
        every_second = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
        said = {"global": every_second, "scrape_configs": [job | here for job in jobs], "rule_files": [str(rules)]}
        config.write_text(yaml.safe_dump(said))
        argv = [program("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}"]
        self._log = folder / "prometheus.log"
        with self._log.open("wb") as log:
            address = f"--web.listen-address=127.0.0.1:{self.port}"
            self._process = subprocess.Popen([*argv, address], stdout=log, stderr=log)

    def __enter__(self) -> Self:
        eventually(self._is_ready, within=PATIENCE_S)
        return self

    def __exit__(self, *problem: object) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE_S)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The current result of an expression."""
        return list(self.ask("query", query=expression)["result"])

    def ask(self, what: str, **query: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.request("GET", f"/api/v1/{what}?{urlencode(query)}")
        answer = json.loads(connection.getresponse().read())
        connection.close()
        assert answer["status"] == "success", (query, answer)
        return answer["data"]

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request("GET", "/-/ready")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()
