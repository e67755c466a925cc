{{/* What the pods of the workers, of the Job and of the test have in common. */}}
{{- define "causeway.commonPodSpec" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.hostAliases }}
hostAliases: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .Values.dnsConfig }}
dnsConfig: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- end -}}

{{/* The image, variables and mounts of a container of the program, from a dict: `root`, `hasSecrets` if the secrets are mounted, and
`isMember` if the pod's name is its name in the Kafka group. */}}
{{- define "causeway.programContainer" -}}
image: {{ include "causeway.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext: {{- toYaml .root.Values.containerSecurityContext | nindent 2 }}
{{- $env := list -}}
{{- if .isMember -}}
{{-   $env = append $env (dict "name" "CAUSEWAY_KAFKA_CONSUMER_GROUP_INSTANCE_ID" "valueFrom" (dict "fieldRef" (dict "fieldPath" "metadata.name"))) -}}
{{- end -}}
{{- with concat $env .root.Values.extraEnv }}
env: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.extraEnvFrom }}
envFrom: {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  - name: config
    mountPath: /etc/causeway/config
    readOnly: true
  {{- if .hasSecrets }}
  - name: secrets
    mountPath: /etc/causeway/secrets
    readOnly: true
  {{- end }}
  {{- with .root.Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* The volumes, from a dict: `root`, `sources` of the secrets as YAML, and optionally `suffix` of the ConfigMap's name. */}}
{{- define "causeway.volumes" -}}
- name: config
  configMap:
    name: {{ include "causeway.fullname" .root }}{{ .suffix }}
{{- with .sources }}
- name: secrets
  projected:
    defaultMode: 0440
    sources: {{- . | nindent 6 }}
{{- end }}
{{- with .root.Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
