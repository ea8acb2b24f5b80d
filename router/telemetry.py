"""None: ONNX Runtime does not speak to Microsoft of what runs here. Imported before it is, since it begins on import.

From 1.29 on its wheels for Linux send particulars of the process and of every model there, and keep an identifier and a
database below HOME, unless this is said (https://github.com/microsoft/onnxruntime/pull/27379). Whoever wants that sets
the variable to 0.
"""

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
