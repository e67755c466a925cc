/// A section of the file with its keys and sections, in the order in which the pages show them.
struct ConfigurationSection: Sendable {
    enum Member: Sendable {
        case key(KeyDescription)
        case section(ConfigurationSection)
    }

    /// The whole name, with `*` for a name that the operator chooses: `apps`, `apps.*`, `apps.*.channels`. Empty for
    /// the whole file.
    let name: String
    let members: [(name: String, member: Member)]

    /// The section that contains all keys and sections of the file. It has no name.
    static let wholeFile = ConfigurationSection(name: "", keys: ConfigurationSchema.descriptions)

    /// - Parameter keys: the keys of the section and of the sections in it. The keys of each section are adjacent.
    init(name: String, keys: [KeyDescription]) {
        let prefix = name.isEmpty ? "" : name + "."
        var groups: [(name: String, keys: [KeyDescription])] = []
        for key in keys {
            let member = String(key.name.dropFirst(prefix.count).prefix { $0 != "." })
            if groups.last?.name == member {
                groups[groups.count - 1].keys.append(key)
            } else {
                groups.append((member, [key]))
            }
        }
        self.name = name
        members = groups.map { group in
            let fullName = prefix + group.name
            if let key = group.keys.first, key.name == fullName { return (group.name, .key(key)) }
            return (group.name, .section(ConfigurationSection(name: fullName, keys: group.keys)))
        }
    }

    /// The text that the generated pages show about the section; nil if the descriptions of its keys are enough.
    var meaning: String? { ConfigurationSchema.sectionTexts[name] }

    /// Says which named section this section is, `apps` or `policies`. Nil if it is neither.
    var namedSection: NamedSection? { NamedSection(rawValue: name) }
}
