"""Operations on the table as a whole: checkpoints, vacuum, restore, clone and the like."""
