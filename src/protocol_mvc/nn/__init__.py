"""Networks: from the views of a batch to features, consensus and predictions."""
