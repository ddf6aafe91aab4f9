/**
 * The scripts of `ugs completion`, by shell. A script must pass the typed words unexpanded to `ugs complete`. A script
 * must not use `eval` or `compgen -W`, because both expand words: if a user typed `$(…)` and then Tab, the expansion
 * would run the command in the parentheses.
 */
export const COMPLETION_SCRIPTS = {
  bash: `# bash completion for ugs

_ugs() {
  # Bash also splits words at "=" and ":". The loop joins the parts that have no space between them.
  local line=\${COMP_LINE:0:COMP_POINT} space word i
  local -a words=()
  for ((i = 0; i < COMP_CWORD; i++)); do
    line=\${line#"\${COMP_WORDS[i]}"}
    space=\${line%%[![:space:]]*}
    line=\${line#"$space"}
    word+=\${COMP_WORDS[i]}
    if [[ -n $space ]]; then
      words+=("$word")
      word=
    fi
  done
  word+=$line
  # Readline replaces only the text after the last character of COMP_WORDBREAKS.
  local kept=
  if [[ $COMP_WORDBREAKS == *=* ]]; then kept=\${word%"\${word##*=}"}; fi
  local found
  COMPREPLY=()
  while IFS= read -r found; do
    found=\${found%%$'\\t'*}
    COMPREPLY+=("\${found#"$kept"}")
  done < <(ugs complete -- "\${words[@]:1}" "$word" 2>/dev/null)
}

# Without a completion from ugs, bash completes file names.
complete -o default -F _ugs ugs
`,
  zsh: `#compdef ugs
# zsh completion for ugs

_ugs() {
  local line
  local -a lines found
  # The flag Q removes quotes without expanding the word.
  lines=("\${(@f)$(ugs complete -- "\${(@Q)words[2,CURRENT-1]}" "\${(Q)PREFIX}" 2>/dev/null)}")
  for line in $lines; do
    found+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
  done
  if (( $#found )); then
    _describe ugs found
  elif [[ $PREFIX != *[\\$\\\`]* ]]; then
    # _files would expand a dollar sign or a backquote, so Tab could run a command.
    _files
  fi
}

# If this file is in fpath, zsh runs it as the function _ugs.
if [[ $funcstack[1] == _ugs ]]; then
  _ugs
else
  compdef _ugs ugs
fi
`,
  fish: `# fish completion for ugs

function __ugs_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l found (ugs complete -- $words[2..-1] "$word" 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path "$word"
    end
end

complete -c ugs -e
complete -c ugs -f -a '(__ugs_complete)'
`,
} as const;
