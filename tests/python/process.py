"""What kind of process the tests run in."""

import os

SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")
