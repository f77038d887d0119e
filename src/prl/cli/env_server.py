"""``env-server @ <name>.json``: serves one environment to the orchestrator."""

import asyncio
import logging
import signal
import sys
from typing import TYPE_CHECKING

from prl.cli.requirements import require_train

if TYPE_CHECKING:
    from prl.envs.broker import EnvBroker

logger = logging.getLogger("prl.envs")


def main() -> None:
    """Exit status: 0 after SIGTERM or Ctrl-C, 1 when the environment cannot be served, 64 for a wrong configuration."""
    require_train("env-server")
    from prl.config import EnvServerConfig, load_config
    from prl.rundir.logs.console import setup_logging
    from prl.rundir.titles import ENV_SERVER, set_process_title

    config = load_config(EnvServerConfig, prog="env-server", description="Serves one environment to the orchestrator.")
    set_process_title(ENV_SERVER)
    setup_logging(config.log.level, json_logging=config.log.json_logging)
    from prl.envs.broker import EnvBroker

    sys.exit(run_server(EnvBroker(config)))


def run_server(broker: "EnvBroker") -> int:
    """Serve until a signal asks to stop. Returns the exit status; why it is not 0 stands in the log."""
    from prl.envs.broker import EnvServerError
    from prl.rundir.logs.console import log_fatal

    async def serve() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await broker.run(stop)

    try:
        asyncio.run(serve())
    except EnvServerError as error:
        logger.error("Env server failed: %s", error)
        return 1
    except Exception:
        log_fatal(logger, "run_server")
        return 1
    return 0


if __name__ == "__main__":
    main()
