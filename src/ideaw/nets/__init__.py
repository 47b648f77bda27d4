"""The dual-stage network in torch: invertible blocks, carriers, balance block, discriminator; rivals apart."""
