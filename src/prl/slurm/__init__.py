"""What SLURM knows of a run's job: allow-listed, bounded questions and typed answers.

Nothing here submits, changes or ends a job. Whoever asks gets what SLURM says, how old it is, and in words why it is
not more. Texts in the answers are other people's: they must be made safe before they are shown.
Each module stands for itself: a run without a job pays for none of them.
"""
