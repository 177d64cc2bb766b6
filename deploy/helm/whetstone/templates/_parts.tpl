{{- define "whetstone.labels" -}}
app.kubernetes.io/name: whetstone
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The variable of a setting: "blob-url" is WHETSTONE_BLOB_URL. */ -}}
{{- define "whetstone.variable" -}}
WHETSTONE_{{ . | upper | replace "-" "_" }}
{{- end }}

{{- /* A pod of one role; the argument is a list of the root and the role. */ -}}
{{- define "whetstone.pod" -}}
{{- $root := index . 0 }}{{ $role := index . 1 }}{{ $part := index $root.Values $role -}}
metadata:
  labels:
    {{- include "whetstone.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ $role }}
  {{- with $root.Values.podAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ if $root.Values.serviceAccount.create }}{{ $root.Release.Name }}-whetstone{{ else }}default{{ end }}
  automountServiceAccountToken: false
  # Longer than the pause before the stop and the drain timeout together.
  terminationGracePeriodSeconds: 45
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile: { type: RuntimeDefault }
  containers:
    - name: whetstone
      image: "{{ $root.Values.image.repository }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}"
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args: ["serve", "--roles", {{ $role | quote }}]
      env:
        - { name: WHETSTONE_ADDR, value: "0.0.0.0:8080" }
        - { name: WHETSTONE_DATA, value: /data }
        {{- range $name, $value := $root.Values.settings }}
        - { name: {{ include "whetstone.variable" $name }}, value: {{ $value | quote }} }
        {{- end }}
        {{- range $name := list "database-url" "secret-key" "bootstrap-key" }}
        - name: {{ include "whetstone.variable" $name }}
          valueFrom: { secretKeyRef: { name: {{ $root.Values.existingSecret }}, key: {{ $name }} } }
        {{- end }}
        - name: {{ include "whetstone.variable" "database-read-url" }}
          valueFrom: { secretKeyRef: { name: {{ $root.Values.existingSecret }}, key: database-read-url, optional: true } }
        {{- range $name := list "aws-access-key-id" "aws-secret-access-key" }}
        - name: {{ $name | upper | replace "-" "_" }}
          valueFrom: { secretKeyRef: { name: {{ $root.Values.existingSecret }}, key: {{ $name }}, optional: true } }
        {{- end }}
      ports:
        - { name: http, containerPort: 8080 }
      startupProbe:
        httpGet: { path: /readyz, port: http }
        periodSeconds: 2
        failureThreshold: 60
      livenessProbe:
        httpGet: { path: /healthz, port: http }
        periodSeconds: 10
        timeoutSeconds: 5
      readinessProbe:
        httpGet: { path: /readyz, port: http }
        periodSeconds: 5
        timeoutSeconds: 5
      lifecycle:
        # The cluster needs a moment to stop sending requests here.
        preStop: { sleep: { seconds: 5 } }
      resources: {{- toYaml $part.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: { drop: [ALL] }
      volumeMounts:
        - { name: data, mountPath: /data }
        - { name: tmp, mountPath: /tmp }
  volumes:
    - { name: data, emptyDir: {} }
    - { name: tmp, emptyDir: {} }
  {{- with $root.Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- else }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "whetstone.labels" $root | nindent 10 }}
          app.kubernetes.io/component: {{ $role }}
  {{- end }}
{{- end }}
