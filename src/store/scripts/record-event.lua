-- Writes an audit event that no change goes with. Answers `done`.
audit(subject, changedFields)
return {'done', nowText}
