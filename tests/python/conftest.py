"""What the Python tests share."""

import faulthandler

import hypothesis

faulthandler.enable()
hypothesis.settings.register_profile("mlx", deadline=None, max_examples=100, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("mlx")
