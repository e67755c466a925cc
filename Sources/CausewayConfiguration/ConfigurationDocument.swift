import Configuration
import Yams

/// The YAML file, parsed and checked against the schema. It knows the place of each key. It has a fault for each
/// unknown key, and for each value of a wrong kind, such as a list for a number.
///
/// swift-configuration reads the values (`snapshot`), but knows neither line numbers nor which keys exist. So this type
/// also parses the text with Yams.
struct ConfigurationDocument {
    static let bytesMax = 1 << 20
    /// The maximum number of values. Without this limit, YAML aliases could make a small file use much memory.
    static let nodesMax = 10_000
    /// The maximum number of levels: the file's map is the first, and the values of its keys are the second.
    static let levelsMax = 16

    /// Why the snapshot cannot represent the document, or which limit the document exceeds.
    private struct FormFault: Error {
        var place: ConfigurationPlace
        var message: String
    }

    /// The place in the file of each key that has a value of the right kind. Examples of keys: `worker.lanes`,
    /// `apps.match.keyId`, `kafka.consumer.fetch.min.bytes`.
    private(set) var places: [String: ConfigurationPlace] = [:]
    /// The names in each named section (`apps`, `policies`), and where each name is in the file.
    private(set) var namePlaces: [NamedSection: [String: ConfigurationPlace]] = [:]
    /// The names of the librdkafka properties that the file sets, by section, such as `kafka.consumer`.
    private(set) var propertyNames: [String: [String]] = [:]
    private(set) var faults: [PlacedFault] = []
    /// The document's values in the form of swift-configuration. Nil if the document is empty, or cannot be read as a
    /// map of keys; if it cannot be read, `faults` says why.
    private(set) var snapshot: YAMLSnapshot?

    init(text: String) {
        do {
            try parse(text)
        } catch let error as YamlError {
            let (place, message) = Self.placeAndMessage(of: error)
            addFault(place, "", message)
        } catch {
            addFault(.wholeFile, "", "cannot be read as YAML")
        }
    }

    private mutating func parse(_ text: String) throws {
        guard text.utf8.count <= Self.bytesMax else {
            return addFault(.wholeFile, "", "is larger than \(Self.bytesMax) bytes")
        }
        guard let root = try Yams.compose(yaml: text), !root.isNull else { return }
        guard let mapping = root.mapping else {
            return addFault(place(of: root), "", "must be a map of sections, such as kafka: and redis:")
        }
        do throws(FormFault) {
            _ = try remainingNodeCount(root, outOf: Self.nodesMax, depth: 0)
        } catch {
            return addFault(error.place, "", error.message)
        }
        checkSection(mapping, section: "", sectionPattern: "")
        snapshot = try YAMLSnapshot(
            data: Array(text.utf8).span.bytes,
            providerName: "file",
            parsingOptions: .init(secretsSpecifier: .all)
        )
    }

    /// Counts `node` and the values in it. Returns how many values the rest of the document may have: `allowedCount`
    /// minus the counted ones. Throws if there are more than `allowedCount`, if `node` is nested too deeply, or if the
    /// snapshot cannot represent its form.
    private func remainingNodeCount(_ node: Node, outOf allowedCount: Int, depth: Int) throws(FormFault) -> Int {
        func fault(at node: Node, _ message: String) -> FormFault {
            FormFault(place: place(of: node), message: message)
        }
        var remainingCount = allowedCount - 1
        if case .sequence(let sequence) = node { remainingCount -= sequence.count }
        guard remainingCount >= 0 else {
            throw FormFault(place: .wholeFile, message: "has more than \(Self.nodesMax) values")
        }
        guard depth < Self.levelsMax else { throw fault(at: node, "is nested deeper than \(Self.levelsMax) levels") }
        switch node {
        case .scalar:
            break
        case .sequence(let sequence):
            if let element = sequence.first(where: { $0.scalar == nil }) {
                throw fault(at: element, "is a list or a map in a list; a list can have only single values")
            }
        case .mapping(let mapping):
            for (key, value) in mapping {
                guard key.scalar != nil else { throw fault(at: key, "must be a text, because it is a key") }
                remainingCount = try remainingNodeCount(value, outOf: remainingCount, depth: depth + 1)
            }
        case .alias:
            throw fault(at: node, "is an alias of no value")
        }
        return remainingCount
    }

    private static func placeAndMessage(of error: YamlError) -> (ConfigurationPlace, String) {
        switch error {
        case .scanner(_, let problem, let mark, _), .parser(_, let problem, let mark, _),
            .composer(_, let problem, let mark, _):
            (.position(line: mark.line, column: mark.column), "is not YAML: \(problem)")
        case .duplicatedKeysInMapping(let duplicates, let context):
            (
                .position(line: context.mark.line, column: context.mark.column),
                "has a key twice: \(duplicates.sorted().joined(separator: ", "))"
            )
        default:
            (.wholeFile, "is not YAML")
        }
    }
}

extension ConfigurationDocument {
    private mutating func addFault(_ place: ConfigurationPlace, _ key: String, _ message: String) {
        faults.append(PlacedFault(place: place, key: key, message: message))
    }

    private func place(of node: Node) -> ConfigurationPlace {
        node.mark.map { .position(line: $0.line, column: $0.column) } ?? .wholeFile
    }

    /// Checks the keys and values of a section, and of the sections inside it.
    ///
    /// - Parameter sectionPattern: the section's name, with `*` for each name that the operator chose.
    private mutating func checkSection(_ mapping: Node.Mapping, section: String, sectionPattern: String) {
        for (keyNode, value) in mapping {
            let name = keyNode.scalar?.string ?? ""
            let key = section.isEmpty ? name : "\(section).\(name)"
            let keyPattern = sectionPattern.isEmpty ? name : "\(sectionPattern).\(name)"
            if name.contains(".") {
                addFault(place(of: keyNode), key, "has a dot; write nested sections, each indented")
            } else if let valueKind = ConfigurationNames.valueKindsByKeyPattern[keyPattern] {
                checkValue(value, valueKind: valueKind, key: key, keyPlace: place(of: keyNode))
            } else if let namedSection = NamedSection(rawValue: keyPattern) {
                withMapping(of: value, key: key) { $0.checkNamedSection($1, of: namedSection) }
            } else if ConfigurationNames.sectionPatterns.contains(keyPattern) {
                withMapping(of: value, key: key) { $0.checkSection($1, section: key, sectionPattern: keyPattern) }
            } else {
                let memberNames = ConfigurationNames.memberNames(of: sectionPattern)
                let suggestion = NearestName.find(nearestTo: name, among: memberNames)
                addFault(place(of: keyNode), key, "is not a key" + (suggestion.map { "; did you mean \($0)?" } ?? ""))
            }
        }
    }

    /// Checks the names in `apps` or `policies`, and the keys below each name.
    private mutating func checkNamedSection(_ mapping: Node.Mapping, of namedSection: NamedSection) {
        for (nameNode, value) in mapping {
            let name = nameNode.scalar?.string ?? ""
            let section = "\(namedSection.rawValue).\(name)"
            if let fault = namedSection.nameRule.findFault(name) {
                addFault(place(of: nameNode), section, fault)
                continue
            }
            namePlaces[namedSection, default: [:]][name] = place(of: nameNode)
            withMapping(of: value, key: section) {
                $0.checkSection($1, section: section, sectionPattern: "\(namedSection.rawValue).*")
            }
        }
    }

    /// Calls `body` with the keys and values of a section. Does nothing for an empty section: YAML's null, or a key
    /// without a value. Adds a fault for any other value.
    private mutating func withMapping(of value: Node, key: String, _ body: (inout Self, Node.Mapping) -> Void) {
        if let mapping = value.mapping {
            body(&self, mapping)
        } else if !value.isNull {
            addFault(place(of: value), key, "is a section: indent its keys below it")
        }
    }

    /// Checks the value of a key. A value of the right kind adds the key to `places`; any other value adds a fault.
    /// Exceptions: a text or choice without a value adds neither, because the key counts as missing. A map of
    /// librdkafka properties adds each property to `places` instead of the key.
    private mutating func checkValue(
        _ value: Node,
        valueKind: ConfigurationValueKind,
        key: String,
        keyPlace: ConfigurationPlace
    ) {
        let valuePlace = value.isNull ? keyPlace : place(of: value)
        switch valueKind {
        case .properties:
            withMapping(of: value, key: key) { document, mapping in
                for (nameNode, value) in mapping {
                    let name = nameNode.scalar?.string ?? ""
                    if value.scalar == nil || value.isNull {
                        document.addFault(document.place(of: nameNode), "\(key).\(name)", "must be one value")
                    } else {
                        document.places["\(key).\(name)"] = document.place(of: nameNode)
                        document.propertyNames[key, default: []].append(name)
                    }
                }
            }
        case .integer(let range):
            if value.isDecimalInteger {
                places[key] = valuePlace
            } else {
                addFault(valuePlace, key, "must be a whole number in \(range.lowerBound)...\(range.upperBound)")
            }
        case .choices(let names):
            if value.sequence != nil {
                places[key] = valuePlace
            } else {
                addFault(valuePlace, key, "must be a list such as [\(names.joined(separator: ", "))]")
            }
        case .texts:
            if value.sequence != nil {
                places[key] = valuePlace
            } else {
                addFault(valuePlace, key, "must be a list such as [\"match-*\"], or [] for none")
            }
        case .text, .choice:
            if value.isNull {
                return
            } else if value.scalar != nil {
                places[key] = valuePlace
            } else {
                addFault(valuePlace, key, "must be one value")
            }
        }
    }
}

extension Node {
    /// Whether the value is empty or one of YAML's words for null.
    fileprivate var isNull: Bool {
        guard let scalar, scalar.style == .plain || scalar.style == .any else { return false }
        return ["", "~", "null", "Null", "NULL"].contains(scalar.string)
    }

    /// Whether the text is a plain decimal integer that `Int` can hold. YAML also knows octal (010), sexagesimal (1:30)
    /// and hexadecimal numbers. These are refused, because an operator may not expect that 010 means 8.
    fileprivate var isDecimalInteger: Bool {
        guard let scalar, scalar.style == .plain || scalar.style == .any else { return false }
        var digits = scalar.string.utf8[...]
        if digits.first == UInt8(ascii: "-") { digits = digits.dropFirst() }
        guard let first = digits.first, first != UInt8(ascii: "0") || digits.count == 1 else { return false }
        return digits.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } && Int(scalar.string) != nil
    }
}
