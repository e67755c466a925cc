"""A fleet of workers of one group, on a broker that rebalances groups."""
