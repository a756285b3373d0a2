"""What Lipschitz constants show between the nodes of a grid."""
