"""Page in the browser that shows a prediction of a trained model with its uncertainty: `hf-bam demo`.

`session` predicts, `views` prepares a result for the page, `page` builds and serves it with Gradio (extra `demo`), and
`space` writes the files of a Hugging Face Space. Gradio is imported when a page is built.
"""

from .page import launch, make_page
from .session import Session
from .space import export

__all__ = ["Session", "export", "launch", "make_page"]
