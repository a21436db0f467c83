# tensorflow1.py -- TensorFlow 1 as programs know it, from the compat.v1 of a TensorFlow 2.
#
# A job whose runtime is 1.x runs on TensorFlow 2.15: there are no wheels of 1.x for today's Pythons. This
# file is in such a job's environment and loaded at the start of its interpreter. `import tensorflow` then
# loads the real package and leaves tensorflow.compat.v1 in its place, with the behaviour of 1.x on (graphs,
# not eager). Its folders come first, so that `from tensorflow.estimator import ...` has those of 1.x, too;
# behind them are the package's own, for tensorflow.python and the like. tf.contrib exists nowhere any more.
import importlib.util
import sys


class Finder:
    def find_spec(self, name, path=None, target=None):
        if name != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            v1 = module.compat.v1
            v1.disable_v2_behavior()
            v1.__path__ = list(v1.__path__) + [p for p in module.__path__ if p not in v1.__path__]
            sys.modules[name] = v1

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder())
