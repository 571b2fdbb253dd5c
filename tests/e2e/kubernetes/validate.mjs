// Validates Kubernetes objects with the schemas of kubernetes-models: a JSON array on stdin, a JSON array of lists of errors on stdout.
// The schemas allow unknown fields; they are found too: a validator reads every field that it knows and no other.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';

const require = createRequire(import.meta.url);
const schemas = `${dirname(require.resolve('kubernetes-models'))}/_schemas`;

function watched(value, path, unread) {
  if (typeof value !== 'object' || value === null) return value;
  const copy = Array.isArray(value) ? [] : {};
  for (const key of Object.keys(value)) {
    const at = `${path}/${key}`;
    unread.add(at);
    Object.defineProperty(copy, key, {
      enumerable: true,
      get: ((inner) => () => (unread.delete(at), inner))(watched(value[key], at, unread)),
    });
  }
  return copy;
}

function check(object) {
  let model;
  try {
    model = require(`kubernetes-models/${object.apiVersion}`)[object.kind];
  } catch {
    // said below
  }
  if (!model) return [`${object.apiVersion} ${object.kind} is no kind of Kubernetes`];
  try {
    new model(object).validate();
  } catch (e) {
    return [e.message];
  }
  const { validate } = require(`${schemas}/${schemaOf(object)}.js`);
  const unread = new Set();
  return validate(watched(object, '', unread)) ? [...unread].map((at) => `${at} is unknown`) : (validate.errors ?? []).map((e) => e.message);
}

// IoK8sApiAppsV1DaemonSet of apps/v1 DaemonSet, IoK8sApiCoreV1Service of v1 Service.
function schemaOf({ apiVersion, kind }) {
  const [group, version] = apiVersion.includes('/') ? apiVersion.split('/') : ['core', apiVersion];
  const upper = (word) => word[0].toUpperCase() + word.slice(1);
  return `IoK8sApi${upper(group.split('.')[0])}${upper(version)}${kind}`;
}

console.log(JSON.stringify(JSON.parse(readFileSync(0, 'utf8')).map(check)));
