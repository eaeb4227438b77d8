"""The commands mlx.launch and mlx.distributed_config, and the files of hosts that both know."""
