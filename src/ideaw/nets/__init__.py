"""The network in torch: invertible blocks, the two stages, length regulators, balance block, discriminator."""
