-- Writes an audit event without another change. Returns `done`.
audit(subject, changedFields)
return {'done', nowText}
