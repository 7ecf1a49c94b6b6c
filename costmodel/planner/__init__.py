"""What a whole model would take, if: kernel graphs, placement, synchronisation of tiles."""
