"""Which arms span the sketch: ridge leverage scores, uniform inclusion, k-DPP, and published sizes."""
