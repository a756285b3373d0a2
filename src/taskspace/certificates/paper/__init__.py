"""The paper's own objects: loss rates, balls, volumes, smoothness."""
