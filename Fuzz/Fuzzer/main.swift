import CFuzzer
import Glibc

// causeway-fuzz TARGET [options and folders of libFuzzer]: runs one target until its time is up or an input
// breaks one of its rules.

/// The chosen target. Global, because libFuzzer passes no context to its callback.
nonisolated(unsafe) private var target = FuzzTarget.frames

let names = FuzzTarget.allCases.map(\.rawValue).joined(separator: ", ")
guard let chosenTarget = CommandLine.arguments.dropFirst().first.flatMap(FuzzTarget.init(rawValue:)) else {
    print("usage: causeway-fuzz TARGET [options and folders of libFuzzer]; the targets: \(names)")
    exit(64)
}
target = chosenTarget

// libFuzzer skips the first word: here the target's name.
var count = CommandLine.argc - 1
var words: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? = CommandLine.unsafeArgv + 1
let status = LLVMFuzzerRunDriver(&count, &words) { data, count in
    if let violation = target.violation(UnsafeRawBufferPointer(start: data, count: count)) {
        fatalError("\(target.rawValue): \(violation)")
    }
    return 0
}
exit(status)
