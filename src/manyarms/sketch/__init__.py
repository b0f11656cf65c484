"""Which arms span the sketch: ridge leverage scores, uniform inclusion, a k-DPP, published sizes."""
