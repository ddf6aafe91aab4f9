-- Writes an audit event, and changes no other data. Returns `done`.
audit(subject, changedFields)
return {'done', nowText}
