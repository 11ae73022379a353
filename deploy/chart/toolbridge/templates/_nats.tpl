{{/* The variable that holds a user's password. */}}
{{- define "toolbridge.passwordVar" -}}
{{ printf "TOOLBRIDGE_%s_PASSWORD" (. | upper | replace "-" "_") }}
{{- end -}}

{{- define "toolbridge.natsUsers" -}}
worker orchestrator route system
{{- range .Values.nats.tenants }} {{ . }}-agent {{ . }}-approver {{ . }}-host{{ end }}
{{- end -}}

{{/* Accounts, users and what they may do. */}}
{{- define "toolbridge.natsAccounts" -}}
{{- $p := default "toolbridge.v1" (dig "bus" "prefix" "" .Values.config) -}}
# Who may do what. Passwords come from the environment of the server; they are
# letters and digits and begin with a letter. Every user but the worker has an
# inbox of its own (nats --inbox-prefix, toolbridge --inbox-prefix): nobody reads
# another's answers. Give the workers' permissions to nobody else.

accounts {
  SYS { users: [{user: system, password: ${{ include "toolbridge.passwordVar" "system" }}}] }

  TOOLBRIDGE {
    jetstream: enabled
    users: [
      { user: worker, password: ${{ include "toolbridge.passwordVar" "worker" }}, permissions: {
          publish: { allow: ["{{ $p }}.>", "_INBOX.>", "_R_.>", "$SRV.>", "$JS.API.>", "$JS.ACK.>", "$JS.FC.>", "$KV.>", "$O.>"] }
          subscribe: { allow: ["{{ $p }}.>", "_INBOX.>", "$SRV.>"] }
      } }
      # Writes grants, which say what each session may see and call; stops sessions, and
      # tells workers the users' tokens at the gateway (gateway.credentials.subject).
      { user: orchestrator, password: ${{ include "toolbridge.passwordVar" "orchestrator" }}, permissions: {
          publish: { allow: [
            "{{ $p }}.*.*.stop", "$KV.toolbridge_grants.>", "$JS.API.INFO", "$JS.API.STREAM.INFO.KV_toolbridge_grants",
            "$JS.API.STREAM.MSG.GET.KV_toolbridge_grants", "$JS.API.DIRECT.GET.KV_toolbridge_grants.>",
            "$JS.API.CONSUMER.CREATE.KV_toolbridge_grants.>", "$JS.API.CONSUMER.DELETE.KV_toolbridge_grants.>"] }
          subscribe: { allow: ["{{ $p }}.*._credentials.*", "_INBOX.orchestrator.>"] }
          allow_responses: { max: 1, expires: "1m" }
      } }
{{- range .Values.nats.tenants }}

      # Tenant {{ . }}: the processes that speak for its sessions.
      { user: {{ . }}-agent, password: ${{ include "toolbridge.passwordVar" (printf "%s-agent" .) }}, permissions: {
          publish: { allow: [
            "{{ $p }}.{{ . }}.*.assemble", "{{ $p }}.{{ . }}.*.bridge", "{{ $p }}.{{ . }}.*.call", "{{ $p }}.{{ . }}.*.fetch",
            "{{ $p }}.{{ . }}.*.preflight", "{{ $p }}.{{ . }}.*.stop", "{{ $p }}.{{ . }}.*.connection.answer"] }
          subscribe: { allow: [
            "{{ $p }}.{{ . }}.*.result.*", "{{ $p }}.{{ . }}.*.event", "{{ $p }}.{{ . }}.*.exec", "{{ $p }}.{{ . }}.*.exec.cancel",
            "_INBOX.{{ . }}-agent.>"] }
          allow_responses: { max: 10000, expires: "24h" }
      } }
      # People who decide on its calls and see to their connected accounts, and what asks
      # them. Where several must not speak for each other, give each a user with its own
      # name in place of the last *.
      { user: {{ . }}-approver, password: ${{ include "toolbridge.passwordVar" (printf "%s-approver" .) }}, permissions: {
          publish: { allow: ["{{ $p }}.{{ . }}._approvals.list.*", "{{ $p }}.{{ . }}._approvals.decide.*", "{{ $p }}.{{ . }}._portal.*"] }
          subscribe: { allow: ["{{ $p }}.{{ . }}._approvals.requested", "{{ $p }}.{{ . }}._approvals.settled", "_INBOX.{{ . }}-approver.>"] }
          allow_responses: { max: 1, expires: "1m" }
      } }
      # Its executors: MCP hosts, hooks and others that run tools of the fleet.
      { user: {{ . }}-host, password: ${{ include "toolbridge.passwordVar" (printf "%s-host" .) }}, permissions: {
          publish: { allow: [
            "$KV.toolbridge_toolsets.{{ . }}.>", "$KV.toolbridge_servers.{{ . }}.>", "$O.toolbridge_blobs.>", "$JS.FC.>",
            "$JS.API.STREAM.MSG.GET.KV_toolbridge_toolsets", "$JS.API.DIRECT.GET.KV_toolbridge_toolsets.$KV.toolbridge_toolsets.{{ . }}.>",
            "$JS.API.STREAM.INFO.KV_toolbridge_servers",
            "$JS.API.STREAM.MSG.GET.KV_toolbridge_servers", "$JS.API.DIRECT.GET.KV_toolbridge_servers.$KV.toolbridge_servers.{{ . }}.>",
            "$JS.API.STREAM.LIST", "$JS.API.STREAM.PURGE.OBJ_toolbridge_blobs",
            "$JS.API.STREAM.MSG.GET.OBJ_toolbridge_blobs", "$JS.API.DIRECT.GET.OBJ_toolbridge_blobs.>",
            "$JS.API.CONSUMER.CREATE.OBJ_toolbridge_blobs.>", "$JS.API.CONSUMER.DELETE.OBJ_toolbridge_blobs.>",
            "$JS.API.STREAM.INFO.KV_toolbridge_toolsets", "$JS.API.STREAM.INFO.KV_toolbridge_revisions",
            "$JS.API.STREAM.INFO.KV_toolbridge_bindings", "$JS.API.STREAM.INFO.KV_toolbridge_grants",
            "$JS.API.STREAM.INFO.OBJ_toolbridge_catalogs", "$JS.API.STREAM.INFO.OBJ_toolbridge_blobs"] }
          subscribe: { allow: [
            "{{ $p }}.{{ . }}._exec.run.*", "{{ $p }}.{{ . }}._exec.cancel.*", "{{ $p }}.{{ . }}._hooks.run.*",
            "{{ $p }}.{{ . }}._mcp.list", "{{ $p }}.{{ . }}._mcp.manage.*",
            "_INBOX.{{ . }}-host.>"] }
          allow_responses: { max: 10000, expires: "24h" }
      } }
{{- end }}
    ]
  }
}
system_account: SYS
{{- end -}}

{{- define "toolbridge.natsConf" -}}
{{- $name := include "toolbridge.natsName" . -}}
server_name: $POD_NAME
port: 4222
http_port: 8222
pid_file: /var/run/nats/nats.pid
max_payload: 8MiB
max_pending: 128MiB
write_deadline: "30s"
lame_duck_grace_period: "5s"
lame_duck_duration: "30s"

jetstream {
  store_dir: /data
  max_memory_store: 256MiB
  max_file_store: {{ .Values.nats.storage.maxFile }}
}
{{- if gt (int .Values.nats.replicas) 1 }}

cluster {
  name: {{ $name }}
  port: 6222
  authorization { user: route, password: $TOOLBRIDGE_ROUTE_PASSWORD, timeout: 5 }
  routes: $TOOLBRIDGE_ROUTES
}
{{- end }}

include ./accounts.conf
{{- end -}}
