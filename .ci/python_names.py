"""Finds what in a folder's modules of tests cannot be imported, and names there that nothing defines. Prints one line each: `FILE[:LINE]: what`.

usage: python3 .ci/python_names.py FOLDER
"""
import ast
import builtins
import dis
import glob
import importlib
import os
import sys
import types


def missing_names(path, module):
    """(line, name) of globals that the module lacks, and of attributes that a module of the same folder lacks."""
    with open(path) as f:
        source = f.read()
    attributes = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load):
            attributes.setdefault(node.value.id, []).append((node.lineno, node.attr))
    folder = os.path.dirname(path)
    for alias, value in vars(module).items():
        if isinstance(value, types.ModuleType) and os.path.dirname(getattr(value, '__file__', None) or '') == folder:
            yield from ((n, f'{alias}.{name}') for n, name in attributes.get(alias, []) if not hasattr(value, name))
    codes, line = [compile(source, path, 'exec')], 0
    while codes:
        code = codes.pop()
        codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
        for step in dis.get_instructions(code):
            line = step.positions.lineno or line
            if step.opname == 'LOAD_GLOBAL' and not hasattr(module, step.argval) and not hasattr(builtins, step.argval):
                yield line, step.argval


def main(folder):
    folder = os.path.abspath(folder)
    sys.path.insert(0, folder)
    top = os.path.dirname(os.path.dirname(folder))
    for path in sorted(glob.glob(f'{folder}/test_*.py')):
        place = os.path.relpath(path, top)
        try:
            module = importlib.import_module(os.path.basename(path)[:-3])
        except (Exception, SystemExit) as e:
            print(f'{place}: cannot be imported: {type(e).__name__}: {e}')
            continue
        for line, name in sorted(set(missing_names(path, module))):
            print(f'{place}:{line}: no {name} here')


main(sys.argv[1])
