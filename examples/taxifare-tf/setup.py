from setuptools import find_packages, setup

setup(
    name="taxifare_trainer",
    version="0.1",
    packages=find_packages(),
    description="Taxi fares with Keras: the trainer of examples/taxifare-tf.",
)
