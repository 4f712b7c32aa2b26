"""Runs real cloud-init on user data, without touching the machine.

Reads a list of {"data": <base64>, "instance": {...}, "root": <directory>} on standard input. Each user data goes
through cloud-init's own splitting into parts, its jinja rendering, its merging of cloud-configs, its schema check and
its write_files module; files are written below the root. Prints a list of {"version", "config", "warnings", "schema"}.
"""

import base64
import getpass
import io
import json
import logging
import os
import sys

from cloudinit import handlers, user_data, util, version
from cloudinit.config import cc_write_files, schema
from cloudinit.handlers.cloud_config import CloudConfigPartHandler
from cloudinit.handlers.jinja_template import JinjaTemplatePartHandler
from cloudinit.settings import PER_INSTANCE


class Paths:
    """The paths of an instance, all in one directory."""

    def __init__(self, root):
        self.root = root

    def get_ipath(self, name=None):
        return os.path.join(self.root, name or "")

    get_cpath = get_ipath_cur = get_runpath = get_ipath


def merged(data, instance, state):
    """The cloud-config that cloud-init makes of the user data."""
    paths = Paths(state)
    with open(paths.get_runpath("instance_data_sensitive"), "w") as out:
        json.dump(instance, out)
    config = CloudConfigPartHandler(paths)
    jinja = JinjaTemplatePartHandler(paths, sub_handlers=[config])
    known = {name: h for h in (config, jinja) for name in h.list_types()}
    walked = {"handlers": known, "excluded": [], "data": None, "frequency": PER_INSTANCE, "handlercount": 0}
    for handler in (config, jinja):
        handlers.call_begin(handler, None, PER_INSTANCE)
    handlers.walk(user_data.UserDataProcessor(paths).process(data), handlers.walker_callback, walked)
    for handler in (config, jinja):
        handlers.call_end(handler, None, PER_INSTANCE)
    with open(paths.get_ipath("cloud_config")) as file:
        return util.load_yaml(file.read(), default={})


def write(files, root):
    """Lets the module write_files write below the root."""
    moved = []
    for file in files:
        entry = dict(file, path=os.path.join(root, file["path"].lstrip("/")))
        if os.getuid() != 0:
            entry["owner"] = getpass.getuser()
        moved.append(entry)
    # Before 24.2 the module took its own name as well.
    named = cc_write_files.write_files.__code__.co_varnames[0] == "name"
    cc_write_files.write_files(*(["write_files"] if named else []), moved, "root:root")


def understand(asked):
    """All about one user data."""
    log = io.StringIO()
    logging.basicConfig(stream=log, level=logging.WARNING, format="%(message)s", force=True)
    state = os.path.join(asked["root"], "state")
    os.makedirs(state)
    config = merged(base64.b64decode(asked["data"]), asked["instance"], state)
    problem = ""
    try:
        schema.validate_cloudconfig_schema(config, schema.get_schema(), strict=True)
    except schema.SchemaValidationError as error:
        problem = str(error)
    write(config.get("write_files") or [], os.path.join(asked["root"], "files"))
    warnings = [line for line in log.getvalue().splitlines() if line]
    return {"version": version.version_string(), "config": config, "schema": problem, "warnings": warnings}


if __name__ == "__main__":
    json.dump([understand(asked) for asked in json.load(sys.stdin)], sys.stdout, default=str)
