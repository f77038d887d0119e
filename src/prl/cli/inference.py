"""``inference @ inference.json``: the inference server of a run.

Exit status: 0 when it was told to stop, 1 when it could not start or crashed, 64 for a wrong configuration.
"""

import logging
import os
import signal
import sys
from types import FrameType

from prl.cli.requirements import require_train


def main() -> None:
    """Take the ports, load the model, serve until stopped."""
    require_train("inference")
    signal.signal(signal.SIGTERM, _stop)
    from prl.config.inference import InferenceConfig
    from prl.config.load import load_config
    from prl.inference.sockets import PortError, take_port
    from prl.rundir.logs.console import setup_logging
    from prl.rundir.titles import INFERENCE, set_process_title

    config = load_config(InferenceConfig, prog="inference", description="Serve the policy of a run.")
    set_process_title(INFERENCE)
    logger = setup_logging(config.log.level, json_logging=config.log.json_logging)
    logger.info("Starting inference server for %s", config.model.name)
    try:
        data = take_port(config.server.host, config.server.port, "server.port")
        admin = take_port(config.server.host, config.engine_port, "backend_port")
    except PortError as error:
        logger.error("%s", error)
        sys.exit(1)
    # Imports torch: a port in use is told before that.
    from prl.inference.server import run_server

    status = run_server(config, data, admin)
    logging.shutdown()
    # Not sys.exit: a busy machine takes seconds to take an interpreter with torch apart, and the engine's thread may
    # still compute.
    os._exit(status)


def _stop(_: int, __: FrameType | None) -> None:
    """SIGTERM before the server listens to signals itself."""
    sys.exit(0)


if __name__ == "__main__":
    main()
