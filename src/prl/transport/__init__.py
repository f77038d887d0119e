"""What travels between the processes of a run: rollout batches, weights, environment requests."""
