import type { SHELLS } from "./command.ts";
import { COMPLETE } from "./protocol.ts";

/** Returns the completion script for a shell. It asks the program itself, so it fits every release. */
export function completionScript(shell: (typeof SHELLS)[number]): string {
  return { bash: BASH, zsh: ZSH, fish: FISH }[shell];
}

/** Works in bash 3.2, too, which macOS has. */
const BASH = `# drawbridge in bash: source <(drawbridge completion bash)
_drawbridge() {
  local current=\${COMP_WORDS[COMP_CWORD]} words=() count=0 previous='' word line prefix files=''
  # bash cuts words at "=": --by=pod is put together again.
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if [[ $count -gt 0 && ( $word == = || $previous == = ) ]]; then
      words[count - 1]+=$word
    else
      words[count]=$word
      count=$((count + 1))
    fi
    previous=$word
  done
  [[ $current == = ]] && current=''
  prefix=\${words[count - 1]%"$current"}
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :0) files=yes ;;
      :*) ;;
      *) line=\${line%%$'\\t'*} && COMPREPLY+=("\${line#"$prefix"}") ;;
    esac
  done < <("\${COMP_WORDS[0]/#~/$HOME}" ${COMPLETE} "\${words[@]}" 2>/dev/null)
  [[ -z $files ]] && return
  compopt -o filenames 2>/dev/null
  while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$current")
}
complete -F _drawbridge drawbridge
`;

const ZSH = `#compdef drawbridge
# drawbridge in zsh: source <(drawbridge completion zsh), or as the file _drawbridge in a directory of fpath
_drawbridge() {
  local -a lines described
  local line text
  lines=("\${(@f)$("\${(Q)words[1]}" ${COMPLETE} "\${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  [[ \${lines[-1]} == :0 ]] && { _files; return }
  for line in "\${(@)lines[1,-2]}"; do
    text=\${line%%$'\\t'*}
    described+=("\${text//:/\\\\:}\${\${line#$text}/$'\\t'/:}")
  done
  _describe drawbridge described
}
if [[ \${funcstack[1]} == _drawbridge ]]; then _drawbridge "$@"; else compdef _drawbridge drawbridge; fi
`;

const FISH = `# drawbridge in fish: drawbridge completion fish | source
function __drawbridge_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    test -n "$current"; or set current ""
    set -l lines ($words[1] ${COMPLETE} $words[2..-1] $current 2>/dev/null)
    if test "$lines[-1]" = :0
        __fish_complete_path $current
    else if test (count $lines) -gt 1
        printf '%s\\n' $lines[1..-2]
    end
end
complete -c drawbridge -f -a '(__drawbridge_complete)'
`;
