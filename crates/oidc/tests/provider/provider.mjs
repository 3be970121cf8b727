// The OpenID provider of the tests: npm's oidc-provider on a free port of loopback.
//
// The first line on stdin is a JSON object: `clients`, `accounts` (claims by account id; the text
// ISSUER in them becomes the issuer's URL), and `groups` (pages that /groups answers with). Each
// later line is a command, answered by one line. The process ends with its stdin, so none is left
// behind by a test that is killed.
//
// People need not type: the account is the `login_hint`, and `nobody` cancels the sign-in.

import { generateKeyPairSync, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createInterface } from "node:readline";

import { Provider } from "oidc-provider";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const server = createServer((request, response) => answer(request, response));
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const issuer = `http://127.0.0.1:${server.address().port}`;
const settings = JSON.parse((await lines.next()).value.replaceAll("ISSUER", issuer));

const counts = {};
// What the next answers are changed to: see the commands.
let publishedKeys = null;
let lastIdToken = null;
let repeatedIdToken = null;
let userinfoIsMixedUp = false;
let ids;
let provider = start(makeKeys());
reply({ issuer });

const commands = {
  // New keys take the place of the old ones.
  rotate: () => {
    provider = start(makeKeys());
  },
  // The same, and the new ones have the ids of the old ones.
  "replace keys": () => {
    provider = start(makeKeys(ids));
  },
  // The provider signs with keys that it does not publish.
  "hide keys": async () => {
    publishedKeys = await (await fetch(`${issuer}/jwks`)).json();
    provider = start(makeKeys());
  },
  // The next token response has the ID token of the one before it.
  "repeat id token": () => {
    repeatedIdToken = lastIdToken;
  },
  // Userinfo is that of another person.
  "mix up userinfo": () => {
    userinfoIsMixedUp = true;
  },
  // Requests by path.
  count: () => counts,
};

for await (const line of lines) {
  const result = await commands[line]();
  reply(result ?? {});
}
process.exit();

function reply(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

function makeKeys(oldIds) {
  const kinds = [
    // For RS256 and PS256.
    ["rsa", { modulusLength: 2048 }],
    ["ec", { namedCurve: "P-256" }],
    ["ed25519", {}],
  ];
  ids = oldIds ?? kinds.map(() => randomUUID());
  const keys = kinds.map(([kind, options], at) => ({
    ...generateKeyPairSync(kind, options).privateKey.export({ format: "jwk" }),
    kid: ids[at],
    use: "sig",
  }));
  return { keys };
}

function start(jwks) {
  const started = new Provider(issuer, {
    jwks,
    clients: settings.clients,
    claims: {
      openid: ["sub"],
      email: ["email", "email_verified"],
      profile: ["name", "preferred_username"],
      groups: ["groups", "realm_access"],
    },
    scopes: ["openid"],
    conformIdTokenClaims: settings.claimsOnlyFromUserinfo ?? false,
    cookies: { keys: ["only for tests"] },
    enabledJWA: { idTokenSigningAlgValues: ["RS256", "PS256", "ES256", "EdDSA"] },
    features: { devInteractions: { enabled: false } },
    findAccount: (_, id) => settings.accounts[id] && { accountId: id, claims: () => ({ sub: id, ...settings.accounts[id] }) },
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    loadExistingGrant,
    ttl: { IdToken: 300, AccessToken: 300, AuthorizationCode: 60, Grant: 600, Interaction: 600, Session: 600 },
  });
  started.use(change);
  started.on("server_error", (_, error) => console.error(error));
  return started;
}

// Nobody is asked for consent.
async function loadExistingGrant(context) {
  const { client, session, params } = context.oidc;
  const grant = new context.oidc.provider.Grant({ clientId: client.clientId, accountId: session.accountId });
  grant.addOIDCScope(params.scope);
  await grant.save();
  return grant;
}

async function change(context, next) {
  await next();
  const { route } = context.oidc ?? {};
  if (route === "jwks" && publishedKeys) context.body = publishedKeys;
  if (route === "userinfo" && userinfoIsMixedUp) context.body = { ...context.body, sub: "mallory" };
  if (route === "token" && context.body?.id_token) {
    lastIdToken = context.body.id_token;
    if (repeatedIdToken) context.body.id_token = repeatedIdToken;
    repeatedIdToken = null;
  }
}

async function answer(request, response) {
  const { pathname, searchParams } = new URL(request.url, issuer);
  counts[pathname] = (counts[pathname] ?? 0) + 1;
  if (pathname.startsWith("/interaction/")) return signIn(request, response);
  if (pathname === "/groups") return listGroups(request, response, Number(searchParams.get("page") ?? 0));
  return provider.callback()(request, response);
}

async function signIn(request, response) {
  const { params } = await provider.interactionDetails(request, response);
  const accountId = params.login_hint ?? "alice";
  const result =
    accountId === "nobody"
      ? { error: "access_denied", error_description: "the person cancelled" }
      : { login: { accountId } };
  return provider.interactionFinished(request, response, result);
}

// A service that tells people's groups, page by page, to holders of an access token.
async function listGroups(request, response, page) {
  const token = request.headers.authorization?.replace(/^Bearer /, "");
  const known = token === "a token for groups" || (await provider.AccessToken.find(token ?? ""));
  const value = settings.groups?.[page];
  if (!known || !value) return response.writeHead(known ? 404 : 401).end();
  const more = settings.groups.length > page + 1;
  const body = { value, ...(more && { "@odata.nextLink": `${issuer}/groups?page=${page + 1}` }) };
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
}
