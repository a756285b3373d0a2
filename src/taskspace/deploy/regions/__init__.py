"""Which policy where: regions over nodes, boxes and names."""
