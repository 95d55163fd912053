"""Object storage: S3 and compatible services, Google Cloud Storage, Azure and HTTP, by way of obstore."""
