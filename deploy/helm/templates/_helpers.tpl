{{- define "ugs.name" -}}
{{- if contains "user-group-service" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-user-group-service" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "ugs.selector" -}}
app.kubernetes.io/name: user-group-service
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "ugs.labels" -}}
{{ include "ugs.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "ugs.redisUrl" -}}
{{- $redis := .Values.redis -}}
{{- $scheme := ternary "rediss" "redis" $redis.tls -}}
{{- if ne $redis.topology "single" -}}{{- $scheme = printf "%s-%s" $scheme $redis.topology -}}{{- end -}}
{{- $user := ternary (printf "%s@" (urlquery $redis.user | replace "+" "%20")) "" (ne $redis.user "") -}}
{{- $path := ternary "" (printf "/%d" (int $redis.database)) (eq $redis.topology "cluster") -}}
{{- $primary := ternary (printf "#%s" (urlquery $redis.primary)) "" (eq $redis.topology "sentinel") -}}
{{- printf "%s://%s%s%s%s" $scheme $user (join "," $redis.addresses) $path $primary -}}
{{- end -}}

{{- /* The settings that the chart sets, and `settings` of values.yaml. */ -}}
{{- define "ugs.settings" -}}
{{- $secrets := "/run/secrets/user-group-service" -}}
METRICS_PORT: "9090"
SHUTDOWN_TIMEOUT: {{ printf "%ds" (int .Values.shutdown.timeoutSeconds) }}
REDIS_URL: {{ include "ugs.redisUrl" . | quote }}
MIN_REPLICAS_ACK: {{ .Values.redis.minReplicasAck | quote }}
TOKEN_KEYS_FILE: {{ $secrets }}/{{ .Values.secret.tokenKeys }}
{{- with .Values.secret.adminToken }}
ADMIN_TOKEN_FILE: {{ $secrets }}/{{ . }}
{{- end }}
{{- with .Values.secret.apiTokens }}
API_TOKENS_FILE: {{ $secrets }}/{{ . }}
{{- end }}
{{- with .Values.secret.redisPassword }}
REDIS_PASSWORD_FILE: {{ $secrets }}/{{ . }}
{{- end }}
{{- with .Values.secret.redisSentinelPassword }}
REDIS_SENTINEL_PASSWORD_FILE: {{ $secrets }}/{{ . }}
{{- end }}
{{- if .Values.redis.ca.secretName }}
REDIS_CA_FILE: /run/secrets/redis-ca/{{ .Values.redis.ca.key }}
{{- end }}
{{- if and .Values.tls.clientCertificates (not .Values.tls.secretName) }}
{{- fail "tls.clientCertificates needs tls.secretName" }}
{{- end }}
{{- if .Values.tls.secretName }}
TLS_CERT_FILE: /run/secrets/tls/tls.crt
TLS_KEY_FILE: /run/secrets/tls/tls.key
{{- if .Values.tls.clientCertificates }}
TLS_CLIENT_CA_FILE: /run/secrets/tls/ca.crt
{{- end }}
{{- end }}
{{- range $name, $value := .Values.settings }}
{{ $name }}: {{ $value | quote }}
{{- end }}
{{- end -}}
