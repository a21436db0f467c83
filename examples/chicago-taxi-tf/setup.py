from setuptools import find_packages, setup

setup(
    name="chicago_taxi_trainer",
    version="0.1",
    packages=find_packages(),
    description="Will the passenger tip? A wide and deep estimator: the trainer of examples/chicago-taxi-tf.",
)
