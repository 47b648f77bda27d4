"""Files in and out, resampling, channels, and the STFT pair that everything else works on."""
