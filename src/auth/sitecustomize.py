# sitecustomize.py -- lets an unchanged `aiplatform.init(project=…, location=…)` reach this server.
#
# Python's site module imports this file at start because `trainyard env` puts its folder first on
# PYTHONPATH. Google's Python SDK has no variable for its endpoint and speaks gRPC unless told
# otherwise, so three of its modules are adjusted at the moment they are imported, and only then: a
# program that imports none of them pays for one small object on sys.meta_path. Nothing here may ever
# stop a program: what cannot be adjusted is left as it is. Standard library only, Python 3.6+.
import os
import sys

_URL = os.environ.get("TRAINYARD_URL", "").rstrip("/")


def _is_google(endpoint):
    return endpoint is None or "googleapis.com" in str(endpoint)


def _initializer(module):
    """aiplatform.init, and a program that never calls it."""
    config = module._Config
    create, init = config.__init__, config.init

    def __init__(self, *args, **kwargs):
        create(self, *args, **kwargs)
        self._api_endpoint = _URL
        self._api_transport = "rest"

    def patched_init(self, **given):
        if _is_google(given.get("api_endpoint")):
            given["api_endpoint"] = _URL
        if given["api_endpoint"] == _URL:
            given["api_transport"] = "rest"
        return init(self, **given)

    patched_init.__doc__ = init.__doc__
    config.__init__, config.init = __init__, patched_init
    module.global_config._api_endpoint = _URL
    module.global_config._api_transport = "rest"


def _service_client(module):
    """The generated clients under aiplatform (JobServiceClient …), also when used directly."""
    for name, client in list(vars(module).items()):
        if not name.endswith("ServiceClient") or getattr(client, "__module__", "") != module.__name__:
            continue
        client.__init__ = _redirected(client.__init__)


def _redirected(create):
    def __init__(self, *, transport=None, client_options=None, **kwargs):
        if transport is None or isinstance(transport, str):
            from google.api_core.client_options import ClientOptions, from_dict

            if isinstance(client_options, dict):
                client_options = from_dict(client_options)
            client_options = client_options or ClientOptions()
            if _is_google(client_options.api_endpoint):
                client_options.api_endpoint = _URL
            if client_options.api_endpoint == _URL and transport in (None, "grpc"):
                transport = "rest"
        create(self, transport=transport, client_options=client_options, **kwargs)

    return __init__


def _storage_client(module):
    """Local credentials belong to a universe of their own; storage is told so nowhere else."""
    theirs = module.Client.universe_domain

    def universe_domain(self):
        if getattr(self, "_is_emulator_set", False):
            return self._credentials.universe_domain
        return theirs.fget(self)

    module.Client.universe_domain = property(universe_domain)


def _resource_manager(module):
    """Project number to id and back: the SDK asks Google over gRPC for a minute; we know."""

    def ask(project, field):
        import json
        import urllib.request

        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open("%s/v1/projects/%s" % (_URL, project), timeout=10) as reply:
                return json.load(reply)[field]
        except Exception:
            return project

    module.get_project_id = lambda project_number, credentials=None: ask(project_number, "projectId")
    module.get_project_number = lambda project_id, credentials=None: ask(project_id, "projectNumber")


def _patch_of(name):
    if not name.startswith("google.cloud."):
        return None
    if name == "google.cloud.aiplatform.initializer":
        return _initializer
    if name == "google.cloud.aiplatform.utils.resource_manager_utils":
        return _resource_manager
    if name == "google.cloud.storage.client":
        return _storage_client
    if name.startswith("google.cloud.aiplatform_v1") and name.endswith("_service.client"):
        return _service_client
    return None


class _Hook:
    """Finds nothing itself: takes what the other finders find and adjusts it after it has run."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        patch = _patch_of(name)
        if patch is None:
            return None
        for finder in sys.meta_path:
            if finder is cls or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                cls._wrap(spec, patch)
                return spec
        return None

    @staticmethod
    def _wrap(spec, patch):
        try:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                try:
                    patch(module)
                except Exception as error:
                    sys.stderr.write(
                        "trainyard: cannot point %s at %s: %s\n" % (spec.name, _URL, error)
                    )

            spec.loader.exec_module = exec_module
        except AttributeError:
            pass


def _is_ours(folder):
    """Is it the client/python of a data folder, this one or another?"""
    folder = os.path.abspath(folder)
    client = os.path.dirname(folder)
    return folder == os.path.dirname(os.path.abspath(__file__)) or (
        folder.endswith("/client/python") and os.path.isfile(client + "/key.json")
    )


def _run_next():
    """The sitecustomize that would have run without us: the user's or the distribution's."""
    others = [p for p in sys.path if p and not _is_ours(p)]
    for finder in list(sys.meta_path):
        spec = finder.find_spec("sitecustomize", others) if hasattr(finder, "find_spec") else None
        if spec is not None and spec.loader is not None:
            module = type(sys)("sitecustomize")
            module.__spec__, module.__loader__ = spec, spec.loader
            module.__file__ = spec.origin
            sys.modules["sitecustomize"] = module
            spec.loader.exec_module(module)
            return


# One of us runs in a process, whatever hands over to another.
if not hasattr(sys, "_trainyard_runs"):
    sys._trainyard_runs = True
    if _URL:
        sys.meta_path.insert(0, _Hook)
    _run_next()
