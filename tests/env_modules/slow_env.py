"""An environment that never finishes importing."""

import time

time.sleep(3600)
