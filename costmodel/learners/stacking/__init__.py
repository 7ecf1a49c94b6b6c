"""Several learners in one, weighted by predictions of what they did not see."""
