import CAllocationCount
import CSimdjson
import Foundation
import LiveActivity

/// The decoders. Each adds a part of its result to `checksum`, so that the compiler cannot remove the work.
enum DecoderKind: String, CaseIterable {
    case ours
    /// Our decoder with the same `aps` dictionary each time, as if one state were sent to many activities.
    case oursRepeated = "ours-repeated"
    /// Our decoder with another `aps` dictionary each time, so that its cache of the last dictionary never helps.
    case oursChanged = "ours-changed"
    case simdjsonFields = "simdjson-fields"
    case simdjsonParse = "simdjson-parse"
    case foundationSerialization = "foundation-serialization"
    case foundationDecoder = "foundation-decoder"

    /// A divisor of the number of repetitions. It keeps the run of a slow decoder short.
    var repetitionDivisor: Int {
        switch self {
        case .ours, .oursRepeated, .oursChanged, .simdjsonFields, .simdjsonParse: 1
        case .foundationSerialization, .foundationDecoder: 20
        }
    }
}

nonisolated(unsafe) var checksum: UInt64 = 0

func decode(_ decoder: DecoderKind, _ record: UnsafeRawBufferPointer, times: Int) {
    var changed = Array(record)
    // Changes the last of the timestamp's ten digits.
    if let firstDigit = changed.firstRange(of: Array("timestamp\":".utf8))?.upperBound { changed[firstDigit + 9] ^= 1 }
    var cache = ApsCache()
    changed.withUnsafeBytes { changed in
        for time in 0..<times {
            let record = decoder == .oursChanged && time % 2 == 1 ? changed : record
            do throws(Fault) {
                let command =
                    decoder == .ours ? try Command.decode(record) : try Command.decode(record, recalling: &cache)
                checksum &+= UInt64(command.bodyByteCount)
            } catch {
                fatalError(error.message(in: record))
            }
        }
    }
}

func run(_ decoder: DecoderKind, _ record: UnsafeRawBufferPointer, times: Int) {
    switch decoder {
    case .ours, .oursRepeated, .oursChanged:
        decode(decoder, record, times: times)
    case .simdjsonFields, .simdjsonParse:
        let parser = CSimdjson_parser_create()
        defer { CSimdjson_parser_destroy(parser) }
        let start = record.bindMemory(to: CChar.self).baseAddress
        for _ in 0..<times {
            var command = CSimdjson_command()
            let isValid =
                decoder == .simdjsonFields
                ? CSimdjson_decode(parser, start, record.count, &command)
                : CSimdjson_parse(parser, start, record.count)
            precondition(isValid, "simdjson reads the sample")
            checksum &+= UInt64(truncatingIfNeeded: command.timestamp)
        }
    case .foundationSerialization:
        let data = Data(record)
        for _ in 0..<times {
            checksum &+= (try? JSONSerialization.jsonObject(with: data)) == nil ? 0 : 1
        }
    case .foundationDecoder:
        let data = Data(record)
        let decoder = JSONDecoder()
        for _ in 0..<times {
            checksum &+= UInt64((try? decoder.decode(CodableCommand.self, from: data))?.aps.timestamp ?? 0)
        }
    }
}

/// Measures the nanoseconds for one decoding: the best of nine measurements, because other work on the machine only
/// makes a measurement longer.
func measureNanoseconds(_ decoder: DecoderKind, _ record: UnsafeRawBufferPointer) -> Double {
    let times = 200_000 / decoder.repetitionDivisor * 400 / max(record.count, 200)
    run(decoder, record, times: times / 10)
    return (0..<9)
        .map { _ in
            let clock = ContinuousClock()
            let elapsed = clock.measure { run(decoder, record, times: times) }
            return Double(elapsed.components.attoseconds / 1_000_000_000 + elapsed.components.seconds * 1_000_000_000)
                / Double(times)
        }
        .min() ?? 0
}

/// Counts the allocations for each decoding, after a warm-up.
func countAllocations(_ decoder: DecoderKind, _ record: UnsafeRawBufferPointer) -> Double {
    let times = 10_000 / decoder.repetitionDivisor
    func count(_ times: Int) -> UInt64 {
        let allocationsBefore = CAllocationCount_total()
        run(decoder, record, times: times)
        return CAllocationCount_total() - allocationsBefore
    }
    _ = count(times)
    // Each run also allocates a parser or a copy of the record. The difference of two runs does not contain
    // these allocations.
    let shortRun = count(times)
    let longRun = count(2 * times)
    return Double(longRun - min(shortRun, longRun)) / Double(times)
}

func printTable() {
    print("simdjson runs its \(String(cString: CSimdjson_implementation())) kernel")
    for sample in Sample.allCases {
        print("\(sample.rawValue), \(sample.bytes.count) bytes")
        sample.bytes.withUnsafeBytes { record in
            for decoder in DecoderKind.allCases {
                let time = String(format: "%10.0f ns", measureNanoseconds(decoder, record))
                let count = String(format: "%8.1f allocations", countAllocations(decoder, record))
                print("  \(decoder.rawValue.padding(toLength: 26, withPad: " ", startingAt: 0))\(time)\(count)")
            }
        }
    }
}

/// For `valgrind --tool=callgrind`: runs only the decoding, a given number of times. The difference between two runs of
/// different lengths does not contain the cost of starting. Valgrind 3.19 cannot read the debug information of Swift
/// 6.3, so run a copy of the program made with `strip -g`.
///
/// - Returns: false if the arguments are wrong.
func runRepeatedly(_ arguments: ArraySlice<String>) -> Bool {
    let words = Array(arguments)
    guard words.count == 3, let decoder = DecoderKind(rawValue: words[0]), let sample = Sample(rawValue: words[1]),
        let times = Int(words[2])
    else { return false }
    sample.bytes.withUnsafeBytes { run(decoder, $0, times: times) }
    return true
}

/// Whether our decoder allocates nothing. The times vary from run to run, but the number of allocations does
/// not, so only this number can fail the check.
func checkAllocations() -> Bool {
    Sample.allCases.allSatisfy { sample in
        [DecoderKind.ours, .oursRepeated, .oursChanged]
            .allSatisfy { decoder in
                let count = sample.bytes.withUnsafeBytes { countAllocations(decoder, $0) }
                if count > 0 { print("\(sample.rawValue): \(count) allocations for each decoding, 0 are allowed") }
                return count == 0
            }
    }
}

switch CommandLine.arguments.dropFirst().first {
case nil:
    printTable()
case "check":
    exit(checkAllocations() ? 0 : 1)
case "repeat" where runRepeatedly(CommandLine.arguments.dropFirst(2)):
    break
default:
    print("usage: JSONBenchmark [check | repeat <contender> <sample> <times>]")
    exit(2)
}
