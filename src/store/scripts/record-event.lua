-- Writes only an audit event. No other data changes. Returns `done`.
audit(subject, changedFields)
return {'done', nowText}
