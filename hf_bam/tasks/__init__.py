"""Tasks to finetune on."""
