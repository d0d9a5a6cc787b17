"""Keeps read models and secondary indexes in step with an Azure Cosmos DB container."""
