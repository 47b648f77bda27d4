"""The network in torch: invertible blocks, the two stages, carriers, balance block, discriminator."""
